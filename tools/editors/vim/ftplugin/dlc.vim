setlocal expandtab shiftwidth=4 softtabstop=4 commentstring=#\ %s
