"""What runs confined: it touches hostile bytes and can reach nothing."""
