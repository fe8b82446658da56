package screen_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
)

func written(t *testing.T, table *screen.Table, s screen.Screen) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, table.Write(screen.NewCleaner(&out), s))
	return out.String()
}

func TestTable(t *testing.T) {
	table := &screen.Table{Indent: 2, Columns: []screen.Column{{Name: "NAME", Shrinks: true}, {Name: "NOTHING"}, {Name: "N", Right: true}, {Name: "END"}}}
	table.Row(screen.Text("a-name-that-is-long", "", "3", "")...)
	table.Row(screen.Text("b", "", "12", "x")...)
	require.Equal(t, ""+
		"  NAME                  N  END\n"+
		"  a-name-that-is-long   3\n"+
		"  b                    12  x\n", written(t, table, screen.Screen{}))
	require.Equal(t, ""+
		"  NAME         N  END\n"+
		"  a-nam…long   3\n"+
		"  b           12  x\n", written(t, table, screen.Screen{Width: 10}), "it does not get narrower")
	require.Equal(t, 2, strings.Count(strings.Split(written(t, table, screen.Screen{Color: true}), "\n")[0], "\x1b[0m")-1, "three headers are painted")
}

func TestNothingControlsTheTerminal(t *testing.T) {
	table := &screen.Table{Columns: []screen.Column{{Name: "MODEL"}}}
	table.Row(screen.Text("A100\x1b[2J\n\u009bx")...)
	require.Equal(t, "MODEL\nA100^[[2J^J\\u009bx\n", written(t, table, screen.Screen{}))
}

func TestBar(t *testing.T) {
	cells := func(s string) []screen.Fill { return []screen.Fill(s) }
	bar := func(s string, width int) string { return screen.Bar(cells(s), width, screen.Screen{}).Text }
	require.Equal(t, "[#.=x-]", bar("#.=x-", 8))
	require.Empty(t, bar("", 8))
	require.Equal(t, "[####....]", bar(strings.Repeat("#.", 32), 8))
	require.Equal(t, "[#.......]", bar("#"+strings.Repeat(".", 999), 8), "the only one in use is seen")
	require.Equal(t, "[#=x-]", bar(strings.Repeat("#", 99)+"=x-", 4))
	painted := screen.Bar(cells("##."), 8, screen.Screen{Color: true})
	var out bytes.Buffer
	_, err := screen.NewCleaner(&out).Write([]byte(painted.Painted))
	require.NoError(t, err)
	require.Equal(t, "[\x1b[34m##\x1b[0m\x1b[32m.\x1b[0m]", out.String())
}

func TestNoTerminal(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, screen.Screen{}, screen.Of(&out))
	progress := screen.NewProgress(&out)
	progress.Step("reading")
	progress.Clear()
	require.Empty(t, out.String(), "nobody looks at a file")
}
