"""Language models: Gemini, OpenAI-compatible endpoints, Anthropic, the client's own model, or built-in rules."""
