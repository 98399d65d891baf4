//! The paragraphs of the documents that this dispatcher is specified by, tried on the real one.
//!
//! Where a document and c10 (PyTorch 2.15) differ, the tests show both readings and say which is
//! which: the document's own example by kernels registered as it describes them, and what the
//! dispatcher does by itself.
//!
//! | file | document |
//! |---|---|
//! | `exercises` | the eight exercises of the note on the c10 dispatcher |
//! | `c10_dispatcher_note` | the rest of that note |
//! | `dispatch_key_header` | the header of the dispatch keys |
//! | `dispatcher_and_aten` | the course page on the dispatcher and ATen |
//! | `dispatcher_tutorial` | the tutorial with traces and dumps |
//! | `how_does_it_work` | the forum post that reinvents the dispatcher in nine problems |
//! | `ways_in` | the macros, static blocks and custom operators |
//! | `keeping_their_word` | `opcheck`, on operators of ours and of ATen |

mod c10_dispatcher_note;
mod dispatch_key_header;
mod dispatcher_and_aten;
mod dispatcher_tutorial;
mod exercises;
mod how_does_it_work;
mod keeping_their_word;
pub(crate) mod support;
mod ways_in;
