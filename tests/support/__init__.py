"""What tests share: data, forgeries, statistics, processes."""
