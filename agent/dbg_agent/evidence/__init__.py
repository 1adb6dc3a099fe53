"""Evidence of why a rank does not proceed. Nothing here is loaded or runs until a question asks for it."""
