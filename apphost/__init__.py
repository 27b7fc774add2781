"""The app host: starts the ordinary cluster, or one suite, or one measurement, and stops all of it."""
