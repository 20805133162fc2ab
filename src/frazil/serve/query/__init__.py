"""Users' SQL over the lake, its results and exports."""
