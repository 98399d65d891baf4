//! Elements, attributes and text. What is written as text or as the value of an attribute is escaped,
//! and every element is closed, so that the result is well-formed as HTML and as XML.

use std::fmt::{self, Display, Write};

/// The attributes of an element.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

/// A page in the making.
#[derive(Default)]
pub(super) struct Markup(String);

/// Escapes what is written to it. Characters that no page may have become U+FFFD.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(c),
                '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                c if c.is_control() => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

impl Markup {
    /// Text, escaped.
    pub(super) fn text(&mut self, text: impl Display) {
        // writing to a string does not fail
        let _ = write!(Escaped(&mut self.0), "{text}");
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            self.text(value);
            self.0.push('"');
        }
    }

    /// An element with what `inside` writes.
    pub(super) fn element(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Markup),
    ) {
        self.open(tag, attributes);
        self.0.push('>');
        inside(self);
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push_str(">\n");
    }

    /// An element with text.
    pub(super) fn leaf(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        text: impl Display,
    ) {
        self.element(tag, attributes, |m| m.text(text));
    }

    /// An element without anything inside: one of SVG, or one that HTML does not close.
    pub(super) fn empty(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes);
        self.0.push_str("/>\n");
    }

    /// What a reader opens and closes.
    pub(super) fn details(
        &mut self,
        is_open: bool,
        summary: impl Display,
        inside: impl FnOnce(&mut Markup),
    ) {
        let open: Attributes<'_> = if is_open { &[("open", &"open")] } else { &[] };
        self.element("details", open, |m| {
            m.leaf("summary", &[], summary);
            inside(m);
        });
    }

    /// What is written in this program, and as it is there.
    pub(super) fn constant(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut m = Markup::default();
        m.leaf("b", &[("title", &"\"><script>'&")], "</b><script>alert(1)</script>\u{0}\u{ffff}");
        assert_eq!(
            m.finish(),
            "<b title=\"&quot;&gt;&lt;script&gt;&#39;&amp;\">&lt;/b&gt;&lt;script&gt;alert(1)\
             &lt;/script&gt;\u{fffd}\u{fffd}</b>\n"
        );
    }
}
