"""Letters: terms, tokens, globs, and words that address the agent."""
