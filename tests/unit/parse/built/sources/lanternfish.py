"""A small job queue for services that already have a database.

Begin with `Queue`: everything else is made by it.
"""

from dataclasses import dataclass

MOST_ATTEMPTS = 7
"""How many attempts a job gets before it is buried."""


@dataclass
class Queue:
    """Keeps jobs in a table and hands each of them to exactly one worker.

    Jobs that fail wait with exponential backoff; after the last attempt they move to the graveyard.

    ```python
    mail = Queue("mail")
    mail.enqueue("send_receipt", 4711)
    ```
    """

    name: str
    """The name under which the jobs are kept."""

    def enqueue(self, function: str, *arguments: object) -> int:
        """Puts a job into the table, within the transaction that is open.

        - `function` is the registered name of what is to be run
        - `arguments` are passed on as they are
        """
        return 0

    def buried(self) -> list[int]:
        """Lists what lies in the graveyard, oldest first."""
        return []


def revive(job: int) -> bool:
    """Takes a job out of the graveyard, so that it is tried again."""
    return False
