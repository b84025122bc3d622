"""`instrument run`: runs a script with its models under proxies, without writing any file of code.

The script is analysed here, in a process that then becomes the script's own: `os.execv` starts Python anew with the
compiled script in memory. So the program finds what it finds under `python train.py`, and nothing of this tool's.
"""
