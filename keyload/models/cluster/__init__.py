"""What a node tells of itself and its cluster."""
