//! Small mbufs and clusters.
