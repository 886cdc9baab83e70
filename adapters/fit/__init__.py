"""Whether target, draft and memory fit each other, by what the weights' own files say."""
