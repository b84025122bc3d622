"""`instrument run`: runs a script with its models under proxies, without writing any source file.

The script is analysed in this process, which then becomes the script's own: `os.execv` restarts Python with the
compiled script in memory. So the program sees what it would see under `python train.py`, and nothing of this tool.
"""
