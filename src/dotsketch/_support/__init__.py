"""What every layer may use and that knows nothing of this library."""
