#!/usr/bin/env python3
"""Writes grammar.json: the features of the grammar expanded into a plain context-free grammar.

English agreement is easiest to state with features (number, word class, verb form, "a" or "an"), and easiest to
check without them. So the features live here, as loops and f-strings, and grammar.json holds the result: rules over
plain categories such as `NP.person.sg`, and the words of every terminal category. Only grammar.json is read by the
trainer and by the recognisers.

Names: <what>.<class of the noun>.<number or verb form>.<first sound>
  class   person, animal (these two act), food, thing, text (these are), place
  number  sg, pl;  verb form: sg, pl, base (after "can", "does not")
  sound   c, v: what follows "a", what follows "an". It is a fact about sound: "an honest", "a unicorn".

    python3 make_grammar.py            # rewrites grammar.json beside this file
"""

import json
from pathlib import Path

VERSION = 1
VOCABULARY = 600
MAX_TOKENS = 16  # the final "." included, "<bos>" not

# --- words --------------------------------------------------------------------------------------------------------


def nouns(regular, irregular=""):
    """Singular/plural pairs. `irregular` holds singular/plural, regular ones take -s."""
    pairs = [(w, w + "s") for w in regular.split()]
    return pairs + [tuple(w.split("/")) for w in irregular.split()]


# class -> (nouns that follow "a", nouns that follow "an")
NOUNS = {
    "person": (
        nouns(
            "baker sailor teacher doctor farmer painter singer gardener king queen judge girl boy soldier writer "
            "dancer pilot poet captain stranger wizard",
            "child/children woman/women man/men",
        ),
        nouns("uncle aunt actor emperor astronaut inventor"),
    ),
    "animal": (
        nouns(
            "dog cat horse cow bird lion rabbit bear frog duck unicorn dragon",
            "fox/foxes wolf/wolves mouse/mice sheep/sheep",
        ),
        nouns("owl elephant otter", "ox/oxen"),
    ),
    "food": (
        nouns(
            "cake pie banana mushroom",
            "potato/potatoes tomato/tomatoes sandwich/sandwiches peach/peaches",
        ),
        nouns("apple onion egg orange"),
    ),
    "thing": (
        nouns(
            "lamp table chair coat basket mirror key rope drum guitar ladder candle ring flute violin telescope",
            "box/boxes knife/knives",
        ),
        nouns("umbrella axe anchor arrow"),
    ),
    "text": (
        nouns("book letter poem map message novel", "story/stories"),
        nouns("essay article"),
    ),
    "place": (
        nouns(
            "garden kitchen forest river village market bridge castle lake tower university house",
            "city/cities library/libraries",
        ),
        nouns("island office inn"),
    ),
}

# class -> (adjectives that follow "a", adjectives that follow "an")
ACTING = (
    "kind brave tired young tall quiet clever lazy happy sad hungry proud gentle curious wise small",
    "old angry honest eager idle anxious unusual ugly",
)
ADJECTIVES = {
    "person": (ACTING[0] + " famous rich", ACTING[1] + " elegant"),
    "animal": (ACTING[0] + " white black", ACTING[1] + " enormous"),
    "food": ("sweet fresh delicious ripe small warm cold", "enormous unusual expensive"),
    "thing": (
        "heavy wooden broken red blue green black white tiny dusty beautiful strange useful",
        "old empty expensive ugly ancient enormous elegant",
    ),
    "text": ("long short famous strange boring funny beautiful useful", "old unusual interesting honest ancient"),
    "place": ("quiet dark beautiful small distant busy famous", "old ancient empty enormous ugly"),
}

# kind of verb -> base/third person/past
VERBS = {
    # nobody is affected; persons and animals do it
    "rest": "sleep/sleeps/slept run/runs/ran walk/walks/walked wait/waits/waited jump/jumps/jumped rest/rests/rested "
    "swim/swims/swam hide/hides/hid disappear/disappears/disappeared play/plays/played",
    # ... only persons do it
    "speak": "sing/sings/sang laugh/laughs/laughed smile/smiles/smiled speak/speaks/spoke work/works/worked "
    "dance/dances/danced whisper/whispers/whispered",
    # somebody is affected; persons and animals do it
    "meet": "see/sees/saw follow/follows/followed watch/watches/watched hear/hears/heard fear/fears/feared "
    "chase/chases/chased find/finds/found love/loves/loved trust/trusts/trusted",
    # ... only persons do it
    "greet": "help/helps/helped thank/thanks/thanked visit/visits/visited remember/remembers/remembered "
    "admire/admires/admired",
    "eat": "eat/eats/ate steal/steals/stole want/wants/wanted smell/smells/smelled",
    "use": "carry/carries/carried find/finds/found break/breaks/broke paint/paints/painted "
    "hide/hides/hid want/wants/wanted buy/buys/bought build/builds/built clean/cleans/cleaned lose/loses/lost "
    "steal/steals/stole",
    "read": "read/reads/read write/writes/wrote study/studies/studied translate/translates/translated "
    "remember/remembers/remembered admire/admires/admired",
    "give": "give/gives/gave show/shows/showed send/sends/sent bring/brings/brought offer/offers/offered "
    "lend/lends/lent hand/hands/handed",
    "think": "think/thinks/thought say/says/said believe/believes/believed hope/hopes/hoped know/knows/knew "
    "claim/claims/claimed",
    # what a thing does
    "fall": "fall/falls/fell burn/burns/burned disappear/disappears/disappeared",
}

WORDS = {
    "Stop": ".",
    "Comma": ",",
    "A": "a",
    "An": "an",
    "The": "the",
    "Det.sg": "this that every each another no",
    "Det.pl": "these those some many several two three four five all most no",
    "Possessive": "my your his her our their",
    "Name": "Anna Ben David Emma Grace Henry Iris Leo Oscar Tom Vera Alice Max Olga Peter Eve",
    "Pronoun.sg": "he she",
    "Pronoun.pl": "we they you",
    "Pronoun.object": "me you him her us them",
    "Somebody": "someone everyone nobody somebody",
    "It": "it",
    "Who": "who",
    "Whom": "whom",
    "That": "that",
    "And": "and",
    "To": "to",
    "Not": "not",
    "With": "with without",
    "From": "from",
    "Where": "in near behind inside outside beyond around",
    "On": "on under above below beside",
    "Join": "and but or because while when before after although",
    "Open": "when because while after before although if",
    "Degree.c": "very quite rather truly",
    "Degree.v": "extremely unusually",
    "Manner": "quietly slowly quickly happily sadly loudly softly gracefully patiently eagerly angrily carefully bravely "
    "gently calmly politely",
    "Time": "today tonight now again here there everywhere",
    "Often": "always often never sometimes usually rarely still also",
    "Modal": "can will must may should could would might",
    "Do.sg": "does did",
    "Do.pl": "do did",
    "Be.sg": "is was",
    "Be.pl": "are were",
    "Be.base": "be",
}

# --- rules --------------------------------------------------------------------------------------------------------

rules: dict[str, list] = {}
lexicon: dict[str, list] = {}


def rule(left, *alternatives):
    """`alternatives` are "weight Category Category ..."; the weight is relative within the category when sampling."""
    for text in alternatives:
        weight, *right = text.split()
        rules.setdefault(left, []).append([float(weight), " ".join(right)])


def terminals():
    for category, words in WORDS.items():
        lexicon[category] = words.split()
    for cls, (c, v) in NOUNS.items():
        for sound, pairs in (("c", c), ("v", v)):
            lexicon[f"Noun.{cls}.sg.{sound}"] = [s for s, _ in pairs]
        lexicon[f"Noun.{cls}.pl"] = [p for _, p in c + v]
    for cls, (c, v) in ADJECTIVES.items():
        lexicon[f"Adj.{cls}.c"], lexicon[f"Adj.{cls}.v"] = c.split(), v.split()
    for kind, text in VERBS.items():
        forms = [tuple(w.split("/")) for w in text.split()]
        lexicon[f"Verb.{kind}.base"] = [b for b, _, _ in forms]
        lexicon[f"Verb.{kind}.third"] = [t for _, t, _ in forms]
        lexicon[f"Verb.{kind}.past"] = [p for _, _, p in forms]
        rule(f"Verb.{kind}.sg", f"2 Verb.{kind}.third", f"1 Verb.{kind}.past")
        rule(f"Verb.{kind}.pl", f"2 Verb.{kind}.base", f"1 Verb.{kind}.past")


def noun_phrases():
    rule("Degree", "2 Degree.c", "1 Degree.v")
    for cls in NOUNS:
        # in proportion to their number, so that no word is favoured
        (nc, nv), (ac, av) = [len(x) for x in NOUNS[cls]], [len(x.split()) for x in ADJECTIVES[cls]]
        rule(f"Noun.{cls}.sg", f"{nc} Noun.{cls}.sg.c", f"{nv} Noun.{cls}.sg.v")
        rule(f"Adj.{cls}", f"{ac} Adj.{cls}.c", f"{av} Adj.{cls}.v")
        for s in "cv":
            rule(
                f"Bar.{cls}.sg.{s}",
                f"10 Noun.{cls}.sg.{s}",
                f"5 Adj.{cls}.{s} Noun.{cls}.sg",
                f"1 Degree.{s} Adj.{cls} Noun.{cls}.sg",
            )
        rule(f"Bar.{cls}.sg", f"3 Bar.{cls}.sg.c", f"1 Bar.{cls}.sg.v")
        rule(
            f"Bar.{cls}.pl",
            f"10 Noun.{cls}.pl",
            f"5 Adj.{cls} Noun.{cls}.pl",
            f"1 Degree Adj.{cls} Noun.{cls}.pl",
        )
        # Core: a determiner and what it determines; NP: with what may stand after it
        rule(
            f"Core.{cls}.sg",
            f"8 The Bar.{cls}.sg",
            f"4 A Bar.{cls}.sg.c",
            f"3 An Bar.{cls}.sg.v",
            f"4 Det.sg Bar.{cls}.sg",
            f"2 Possessive Bar.{cls}.sg",
        )
        rule(
            f"Core.{cls}.pl",
            f"6 The Bar.{cls}.pl",
            f"5 Det.pl Bar.{cls}.pl",
            f"2 Possessive Bar.{cls}.pl",
        )
        if cls != "animal":
            rule(f"Core.{cls}", f"2 Core.{cls}.sg", f"1 Core.{cls}.pl")
        if cls == "place":
            continue
        for n in ("sg", "pl"):
            after = [f"12 Core.{cls}.{n}", f"1 Core.{cls}.{n} From.place", f"2 Core.{cls}.{n} Relative.{cls}.{n}"]
            if cls == "person":
                after += [f"1 Core.{cls}.{n} With Core.thing"]
            rule(f"NP.{cls}.{n}", *after)
        rule(f"NP.{cls}", f"2 NP.{cls}.sg", f"1 NP.{cls}.pl")

    for n in ("sg", "pl"):
        rule(f"Relative.person.{n}", f"3 Who Short.person.{n}", "2 Whom Does.meet", "1 Whom Does.greet")
        rule(f"Relative.animal.{n}", f"3 That Short.animal.{n}", "2 That Does.meet")
        for cls, verb in (("food", "eat"), ("thing", "use"), ("text", "read")):
            rule(f"Relative.{cls}.{n}", f"3 That Does.{verb}", f"1 That Is.{cls}.{n}")
    # "the sailor sees", the inside of "the dog that the sailor sees"
    for verb in ("meet", "greet", "eat", "use", "read"):
        rule(f"Does.{verb}", f"2 Actor.person.sg Verb.{verb}.sg", f"1 Actor.person.pl Verb.{verb}.pl")


def places():
    rule("From.place", "1 From Core.place.sg")
    rule("At", "6 Where Core.place", "2 On Core.thing.sg")


def participants():
    # who acts: Actor is short, Subject may be longer
    rule("Actor.person.sg", "6 Core.person.sg", "3 Name", "2 Pronoun.sg", "1 Somebody")
    rule("Actor.person.pl", "4 Core.person.pl", "1 Name And Name", "2 Pronoun.pl")
    rule("Actor.animal.sg", "9 Core.animal.sg", "1 It")
    rule("Actor.animal.pl", "1 Core.animal.pl")
    rule("Subject.person.sg", "12 NP.person.sg", "4 Name", "3 Pronoun.sg", "1 Somebody")
    rule(
        "Subject.person.pl",
        "8 NP.person.pl",
        "1 Name And Name",
        "1 Core.person.sg And Core.person.sg",
        "3 Pronoun.pl",
    )
    rule("Subject.animal.sg", "9 NP.animal.sg", "1 It")
    rule("Subject.animal.pl", "6 NP.animal.pl", "1 Core.animal.sg And Core.animal.sg")
    for cls in ("food", "thing", "text"):
        rule(f"Subject.{cls}.sg", f"1 NP.{cls}.sg")
        rule(f"Subject.{cls}.pl", f"1 NP.{cls}.pl")
    # who is affected
    rule("Receiver", "5 Core.person", "2 Name", "2 Pronoun.object")
    rule("Affected", "5 NP.person", "3 NP.animal", "2 Name", "2 Pronoun.object")
    rule("Gift", "3 Core.thing", "2 Core.text", "2 Core.food")


def predicates():
    for f in ("sg", "pl", "base"):
        both = [
            f"5 Verb.rest.{f}",
            f"3 Verb.rest.{f} Manner",
            f"3 Verb.rest.{f} At",
            f"1 Verb.rest.{f} Manner At",
            f"5 Verb.meet.{f} Affected",
            f"1 Verb.meet.{f} Affected At",
            f"1 Verb.meet.{f} Affected Manner",
            f"4 Verb.eat.{f} NP.food",
            f"1 Verb.eat.{f} Core.food At",
        ]
        only_persons = [
            f"4 Verb.speak.{f}",
            f"3 Verb.speak.{f} Manner",
            f"2 Verb.speak.{f} At",
            f"3 Verb.greet.{f} Affected",
            f"5 Verb.use.{f} NP.thing",
            f"1 Verb.use.{f} Core.thing At",
            f"4 Verb.read.{f} NP.text",
            f"1 Verb.read.{f} Core.text At",
            f"3 Verb.give.{f} Receiver Gift",
            f"3 Verb.give.{f} Gift To Receiver",
            f"4 Verb.think.{f} That Clause.short",
        ]
        # Act: led by a full verb; Short: what fits into a relative or a subordinate clause
        rule(f"Act.animal.{f}", *both)
        rule(f"Act.person.{f}", *both, *only_persons)
        if f != "base":
            both = [
                f"3 Verb.rest.{f}",
                f"1 Verb.rest.{f} Manner",
                f"2 Verb.meet.{f} Receiver",
                f"1 Verb.eat.{f} Core.food",
            ]
            only_persons = [
                f"2 Verb.speak.{f}",
                f"1 Verb.greet.{f} Receiver",
                f"2 Verb.use.{f} Core.thing",
                f"1 Verb.read.{f} Core.text",
            ]
            rule(f"Short.animal.{f}", *both)
            rule(f"Short.person.{f}", *both, *only_persons)
        for cls in ("person", "animal", "food", "thing", "text"):
            rule(f"Is.{cls}.{f}", f"4 Be.{f} Adj.{cls}", f"2 Be.{f} Degree Adj.{cls}", f"2 Be.{f} At")
            if f != "base":
                rule(f"Is.{cls}.{f}", f"1 Be.{f} Not Adj.{cls}")
    rule("Is.person.sg", "2 Be.sg A Bar.person.sg.c", "1 Be.sg An Bar.person.sg.v")

    for n in ("sg", "pl"):
        for cls in ("person", "animal"):
            rule(
                f"VP.{cls}.{n}",
                f"14 Act.{cls}.{n}",
                f"1 Act.{cls}.{n} Time",
                f"2 Often Act.{cls}.{n}",
                f"2 Modal Act.{cls}.base",
                f"1 Modal Not Act.{cls}.base",
                f"2 Do.{n} Not Act.{cls}.base",
                f"5 Is.{cls}.{n}",
                f"1 Modal Is.{cls}.base",
            )
        for cls in ("food", "thing", "text"):
            rule(
                f"VP.{cls}.{n}",
                f"6 Is.{cls}.{n}",
                f"1 Modal Is.{cls}.base",
                f"1 Verb.fall.{n}",
                f"1 Modal Verb.fall.base",
                f"1 Do.{n} Not Verb.fall.base",
            )


def sentences():
    weights = {"person": 9, "animal": 5, "thing": 2, "text": 1, "food": 1}
    for cls, w in weights.items():
        for n, m in (("sg", 2), ("pl", 1)):
            rule("Clause", f"{w * m} Subject.{cls}.{n} VP.{cls}.{n}")
    for cls, w in (("person", 2), ("animal", 1)):
        for n, m in (("sg", 2), ("pl", 1)):
            rule("Clause.short", f"{w * m} Actor.{cls}.{n} Short.{cls}.{n}")
            if cls == "person":
                rule("Clause.short", f"1 Actor.{cls}.{n} Is.{cls}.{n}")
    rule(
        "Sentence",
        "16 Clause Stop",
        "2 Clause.short Join Clause.short Stop",
        "1 Open Clause.short Comma Clause.short Stop",
        "2 At Comma Clause.short Stop",
    )


def main():
    terminals()
    noun_phrases()
    places()
    participants()
    predicates()
    sentences()

    specials = ["<bos>", ".", ","]
    words = sorted({w for ws in lexicon.values() for w in ws} - set(specials), key=lambda w: (w.lower(), w))
    tokens = specials + words
    print(f"{len(tokens)} tokens, {len(lexicon)} terminal categories, {sum(map(len, rules.values()))} rules")
    assert len(tokens) == VOCABULARY, f"the vocabulary must have {VOCABULARY} tokens, it has {len(tokens)}"

    # one line per category: made by hand, because json's own indent puts every word on its own
    def table(entries):
        lines = [f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items()]
        return "{\n" + ",\n".join(lines) + "\n  }"

    for alternatives in rules.values():
        for a in alternatives:
            a[0] = int(a[0]) if a[0] == int(a[0]) else a[0]
    rows = [", ".join(json.dumps(t) for t in tokens[i : i + 12]) for i in range(0, len(tokens), 12)]
    out = "{\n"
    out += f'  "version": {VERSION},\n  "start": "Sentence",\n  "max_tokens": {MAX_TOKENS},\n'
    out += '  "bos": "<bos>",\n  "end": ".",\n'
    out += '  "tokens": [\n    ' + ",\n    ".join(rows) + "\n  ],\n"
    out += f'  "lexicon": {table(lexicon)},\n  "rules": {table(rules)}\n}}\n'
    json.loads(out)
    (Path(__file__).parent / "grammar.json").write_text(out)


if __name__ == "__main__":
    main()
