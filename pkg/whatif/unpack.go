package whatif

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// unpackedAtMost bounds what a dump may unpack to: one of 10,000 nodes takes 300 MB.
const unpackedAtMost = 4 << 30

// unpacked returns what was gzipped, and all else as it is.
func unpacked(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unpack it: %w", err)
	}
	all, err := io.ReadAll(io.LimitReader(reader, unpackedAtMost))
	if err != nil {
		return nil, fmt.Errorf("unpack it: %w", err)
	}
	return all, nil
}
