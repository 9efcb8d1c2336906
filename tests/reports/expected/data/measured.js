var measured = []
