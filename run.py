"""python run.py fit|validate|test|predict|explain --config CONFIG ..."""

from lightning_xai.cli import main

if __name__ == "__main__":
    main()
