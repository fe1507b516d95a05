packages=ghostscript
needs=gs
maps=gs

prepare() {
    local pages
    pages=$(amount 4 12)
    sed "s/PAGES/$pages/" >page.ps <<'PS'
%!PS
/Times-Roman findfont 11 scalefont setfont
1 1 PAGES {
  /page exch def
  0 1 60 { /line exch def 40 760 line 12 mul sub moveto (page ) show page 10 string cvs show ( line ) show line 10 string cvs show ( the quick brown fox) show } for
  0 5 355 { gsave 420 400 translate rotate newpath 0 0 moveto 150 0 lineto 120 40 lineto closepath page 12 div 0.4 0.7 setrgbcolor fill grestore } for
  0 1 400 { /k exch def gsave k 7 mul 600 mod k 13 mul 780 mod translate k 1 add 0.05 mul dup scale 0 0 10 0 360 arc 0.2 setgray stroke grestore } for
  << /ShadingType 2 /ColorSpace /DeviceRGB /Coords [0 0 600 0] /Function << /FunctionType 2 /Domain [0 1] /C0 [1 0 0] /C1 [0 0 1] /N 1 >> >> /s exch def
  gsave 300 40 200 60 rectclip s shfill grestore
  showpage
} for
PS
}

measure() {
    gs -q -dBATCH -dNOPAUSE -dSAFER -r150 -sDEVICE=ppmraw -sOutputFile=page%02d.ppm "$shared/page.ps"
    md5sum page*.ppm
    gs -q -dBATCH -dNOPAUSE -dSAFER -r100 -dTextAlphaBits=4 -dGraphicsAlphaBits=4 -dNumRenderingThreads=2 -sDEVICE=png16m -sOutputFile=page%02d.png "$shared/page.ps"
    md5sum page*.png
    # A PDF contains the date and an identifier; its pages do not.
    gs -q -dBATCH -dNOPAUSE -dSAFER -sDEVICE=pdfwrite -sOutputFile=all.pdf "$shared/page.ps"
    gs -q -dBATCH -dNOPAUSE -dSAFER -r72 -sDEVICE=ppmraw -sOutputFile=again%02d.ppm all.pdf
    md5sum again*.ppm
    echo 'undefined-operator' | gs -q -dBATCH -dNOPAUSE -dSAFER -sDEVICE=nullpage - >error || echo "exit $?"
    head -n 1 error
}
