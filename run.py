"""python run.py fit|validate|test|predict --config CONFIG ..., or explain|racu|stability and what to read."""

from lightning_xai.commands.main import main

if __name__ == "__main__":
    main()
