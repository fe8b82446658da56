package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const output = `goos: linux
BenchmarkAllocate/table=warm/case=1_of_8/impl=upstream-2   10  10000 ns/op  100 B/op  90 allocs/op
BenchmarkAllocate/table=warm/case=1_of_8/impl=upstream-2   10  30000 ns/op  100 B/op  90 allocs/op
BenchmarkAllocate/table=warm/case=1_of_8/impl=upstream-2   10  12000 ns/op  100 B/op  90 allocs/op
BenchmarkAllocate/table=warm/case=1_of_8/impl=ours-2       10   1000 ns/op  100 B/op   6 allocs/op
BenchmarkAllocate/table=warm/case=too_long/impl=ours-2     10   5500 ns/op  100 B/op   8 allocs/op
BenchmarkNew/table=cold/case=5_nodes/impl=ours-2       1   1000 ns/op  100 B/op   6 allocs/op
BenchmarkNew/table=cold/case=5_nodes/impl=upstream-2   1    500 ns/op  100 B/op   4 allocs/op
BenchmarkSomethingElse-2                        10   5500 ns/op
PASS
`

func TestTable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, run(strings.NewReader(output), &b))
	var rows []string
	for _, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		titles["warm"], "",
		"| case |upstream |ours |ratio |upstream allocs |our allocs |",
		"|--- |---: |---: |---: |---: |---: |",
		"| 1 of 8 |12.0 µs |1.0 µs |12.0 × |90 |6 |",
		"| too long |left out |5.5 µs |– |– |8 |",
		"", titles["cold"], "",
		"| case |upstream |ours |ratio |upstream allocs |our allocs |",
		"|--- |---: |---: |---: |---: |---: |",
		"| 5 nodes |0.5 µs |1.0 µs |0.5 × |4 |6 |",
	}, rows)
}

func TestNothingToCompare(t *testing.T) {
	require.ErrorContains(t, run(strings.NewReader("PASS\n"), &strings.Builder{}), "no benchmark with table=, case= and impl=")
}

func TestUnknownTable(t *testing.T) {
	err := run(strings.NewReader("BenchmarkX/table=new/case=c/impl=ours-2 1 1000 ns/op\n"), &strings.Builder{})
	require.ErrorContains(t, err, `its table= is "new"`)
}
