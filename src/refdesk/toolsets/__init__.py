"""Which tools does a client see?  One file a contract, and contract.py, which they are written against."""
