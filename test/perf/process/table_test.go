package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWriteTable(t *testing.T) {
	var text strings.Builder
	require.NoError(t, writeTable(&text, []measurement{
		{label: "other", throughput: 12},
		{label: baseline, heap: 100 << 20, resident: 200 << 20, start: time.Second, perPod: 20 * time.Millisecond, throughput: 40},
		{label: "ours", heap: 110 << 20, resident: 190 << 20, start: 2 * time.Second, perPod: 5 * time.Millisecond, throughput: 100},
	}))
	require.Equal(t, `| scheduler | pods/s | CPU ms/pod | CPU to start s | heap MiB | resident MiB |
|---|---:|---:|---:|---:|---:|
| other | 12.0 (0.3) | 0.00 (0) | 0.00 (0) | 0.0 (0) | 0 (0) |
| in-tree | 40.0 | 20.00 | 1.00 | 100.0 | 200 |
| ours | 100.0 (2.5) | 5.00 (0.25) | 2.00 (2) | 110.0 (1.1) | 190 (0.95) |
`, text.String())
}
