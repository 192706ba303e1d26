"""The five contracts, one toolset each, written against contract.py."""
