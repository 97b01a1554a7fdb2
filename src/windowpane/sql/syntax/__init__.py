"""SQL text to a parsed statement: tokens, our clauses, the accepted grammar, refusals with their place in the text."""
