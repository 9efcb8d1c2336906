"""What people see while something runs, and what it says at its end."""
