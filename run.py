"""Usage: python run.py fit|validate|test|predict --config CONFIG ..., or run.py explain|racu|stability ..."""

from lightning_xai.commands.main import main

if __name__ == "__main__":
    main()
