"""Text analysis: terms, token counts, globs, and the detection of text that addresses the agent."""
