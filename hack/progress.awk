# Shortens the output of `go build -v` (and of other go commands with -v): the
# names of compiled packages become a line now and then, everything else passes.
/^[A-Za-z0-9_.\/~-]+$/ {
	compiled++
	if (compiled % 100 == 0) {
		printf "  compiled %d packages, the last one %s\n", compiled, $0
		fflush()
	}
	next
}
{
	print
	fflush()
}
