//! Rewriting graphs by equality saturation.
