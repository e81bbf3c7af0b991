//! Queue disciplines with the semantics of their Linux namesakes
