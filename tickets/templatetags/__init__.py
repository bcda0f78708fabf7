"""What the templates of tickets can say."""
