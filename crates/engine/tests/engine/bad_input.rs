//! What is refused, and that nothing is left of it.
