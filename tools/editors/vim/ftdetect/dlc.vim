au BufRead,BufNewFile *.dl setfiletype dlc
