//! Messages to a shop, with what they are.

/// The classes.
pub(crate) const KINDS: [&str; 3] = ["complaint", "question", "praise"];

/// What is learned from; classes take turns, so that every batch has all of them.
pub(crate) const TRAINING: [(usize, &str); 24] = [
    (0, "The parcel arrived two weeks late and nobody told me why."),
    (1, "Can I change the delivery address of my order?"),
    (2, "The lamp looks even better than in the pictures, thank you!"),
    (0, "My new kettle leaks, and this is already the second one."),
    (1, "Do you also sell this jacket in green?"),
    (2, "Your support answered within minutes, that was wonderful."),
    (0, "I was charged twice and I want my money back."),
    (1, "How long does the battery of this phone last?"),
    (2, "Best shoes I have ever owned, I will buy them again."),
    (0, "The colour is nothing like what your page shows."),
    (1, "Is the table delivered in one piece or do I have to build it?"),
    (2, "Fast delivery and lovely packaging, five stars."),
    (0, "Half of the cups were broken when I opened the box."),
    (1, "When will the blue version be available again?"),
    (2, "My daughter loves the puzzle, what a great present."),
    (0, "Your app crashes every time I try to pay."),
    (1, "Which size should I take if I am between two sizes?"),
    (2, "I am very happy with the chair, it is so comfortable."),
    (0, "Nobody answers the phone, I have been waiting for an hour."),
    (1, "Does the warranty cover damage by water?"),
    (2, "Great price, great quality, keep it up!"),
    (0, "The sofa smells terrible and the seams come apart."),
    (1, "May I return a gift without the receipt?"),
    (2, "The staff in your store were so kind and patient."),
];

/// What it is judged by.
pub(crate) const OTHERS: [(usize, &str); 15] = [
    (0, "The zip of the bag broke on the first day."),
    (1, "Could you tell me where my order is now?"),
    (2, "What a beautiful watch, I could not be happier."),
    (0, "You sent me the wrong book, and returning it costs me money."),
    (1, "Are these plates safe for the dishwasher?"),
    (2, "Everything went smoothly, I recommend this shop to all my friends."),
    (0, "The screen has been flickering since I bought it."),
    (1, "What do I have to do to cancel my subscription?"),
    (2, "Thanks for the quick replacement, excellent service!"),
    (0, "I am disappointed: the blanket is thin and scratchy."),
    (1, "Is there a discount for students?"),
    (2, "The coffee tastes fantastic, we are delighted."),
    (0, "Three reminders, and still no refund."),
    (1, "Do I need an adapter to use it in Japan?"),
    (2, "The cleverest toy we have, our son plays with it every day."),
];
