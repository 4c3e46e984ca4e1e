//! The retriever: fetch, extract, distil.
