"""Evaluation of discovery: the right operation for a task, among ours and among anyone's."""
