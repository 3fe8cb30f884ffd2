" Replays the cases of a file of JSON, and writes what became of each.
set shiftwidth=2 expandtab tabstop=4 softtabstop=0 noautoindent backspace=indent,eol,start nojoinspaces encoding=utf-8
set matchpairs=(:),{:},[:] nrformats= textwidth=0
let s:out = []
for s:case in json_decode(join(readfile($VIM_CASES), "\n"))
  enew!
  setlocal undolevels=-1
  call setline(1, split(s:case.text, "\n", 1))
  setlocal undolevels=1000
  call setreg('"', '')
  call setcharsearch({'char': "\x01", 'forward': 1, 'until': 0})
  call cursor(1, 1)
  call feedkeys("i\<Esc>" .. s:case.keys .. "\<Esc>\<Esc>", 'xtn')
  call add(s:out, {'text': join(getline(1, '$'), "\n"), 'line': line('.') - 1, 'col': col('.') - 1})
endfor
call writefile([json_encode(s:out)], $VIM_OUT)
qa!
