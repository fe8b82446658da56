package whatif

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// unpackedAtMost limits the size of a dump, packed and unpacked: one of 10,000 nodes takes 300 MB.
const unpackedAtMost = 1 << 30

// unpacked returns gzipped data unpacked, and other data unchanged.
func unpacked(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unpack it: %w", err)
	}
	all, err := bounded(reader)
	if err != nil {
		return nil, fmt.Errorf("unpack it: %w", err)
	}
	return all, nil
}

// bounded reads all data, and fails if there is too much.
func bounded(r io.Reader) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(r, unpackedAtMost+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("it ends before its time: %w", err)
	case len(all) > unpackedAtMost:
		return nil, fmt.Errorf("the file is larger than %d MiB, the limit of a dump; give a file that kubectl devices dump has written", unpackedAtMost>>20)
	}
	return all, nil
}
