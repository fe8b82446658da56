package memo

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// text is a finding.
type text string

var seed = maphash.MakeSeed()

func (t text) Alike(other text) bool { return t == other }
func (t text) Hash() uint64          { return maphash.String(seed, string(t)) }
func (t text) Size() int             { return len(t) }

func subjects(n int) []*Subject {
	list := make([]*Subject, n)
	for i := range list {
		list[i] = new(Subject)
	}
	return list
}

func about(name string) Key { return Key{Kind: "test", Text: name} }

// write puts a unique text of the given length about each subject.
func write(m *Memory, name string, on []*Subject, length int) {
	table := Open[text](m, about(name))
	for i, subject := range on {
		table.Put(subject, text(fmt.Sprintf("%s %*d", name, length, i)))
	}
}

func knows(m *Memory, name string, subject *Subject) bool {
	_, found := NewReference[text](about(name)).Get(m, subject)
	return found
}

func TestWhatWasPutIsThere(t *testing.T) {
	t.Parallel()
	m, on := New(1<<20), subjects(1000)
	ref := NewReference[text](about("q"))
	_, found := ref.Get(m, on[0])
	require.False(t, found)
	for i, subject := range on {
		require.Equal(t, text(fmt.Sprint(i)), ref.Put(m, subject, text(fmt.Sprint(i))))
	}
	require.Equal(t, text("7"), ref.Put(m, on[7], "8"), "the first one stays")
	for i, subject := range on {
		finding, found := ref.Get(m, subject)
		require.True(t, found)
		require.Equal(t, text(fmt.Sprint(i)), finding)
	}
	require.False(t, knows(m, "other", on[0]))
	require.False(t, knows(New(1<<20), "q", on[0]), "another memory")
	_, found = ref.Get(New(1<<20), on[0])
	require.False(t, found)
}

// TestWhatIsAlikeIsKeptOnce: most nodes give the same answer.
func TestWhatIsAlikeIsKeptOnce(t *testing.T) {
	t.Parallel()
	m, on := New(1<<30), subjects(10_000)
	table := Open[text](m, about("q"))
	long := text(make([]byte, 1000))
	for _, subject := range on {
		table.Put(subject, long)
	}
	require.Less(t, m.Taken(), 10_000*16, "little more than a number for each")
}

// TestTheLeastRecentlyUsedGoesFirst: reading counts as use.
func TestTheLeastRecentlyUsedGoesFirst(t *testing.T) {
	t.Parallel()
	m, on := New(900_000), subjects(10)
	for _, name := range []string{"a", "b", "c"} {
		write(m, name, on, 20_000) // 200 kB and a bit
	}
	require.True(t, knows(m, "a", on[0]))
	write(m, "d", on, 20_000)
	write(m, "e", on, 20_000)
	require.False(t, knows(m, "b", on[0]))
	for _, name := range []string{"a", "c", "d", "e"} {
		require.True(t, knows(m, name, on[9]), name)
	}
	write(m, "f", on, 1)
	require.True(t, knows(m, "e", on[0]))
	m.SetBound(500_000)
	require.LessOrEqual(t, m.Taken(), 500_000)
	require.True(t, knows(m, "e", on[0]))
	require.False(t, knows(m, "a", on[0]))
}

// TestTheBoundHolds: in any order of operations, even if a single table is too large.
func TestTheBoundHolds(t *testing.T) {
	t.Parallel()
	const bound = 200_000
	m, on, rng := New(bound), subjects(500), rand.New(rand.NewSource(1))
	for range 5000 {
		table := Open[text](m, about(fmt.Sprint(rng.Intn(100))))
		switch rng.Intn(4) {
		case 0:
			table.Error(errors.New(fmt.Sprint(rng.Int(), string(make([]byte, rng.Intn(1000))))), func() error { return errors.New("more") })
		default:
			subject := on[rng.Intn(len(on))]
			table.Put(subject, text(make([]byte, rng.Intn(10_000))))
			table.Get(subject)
		}
		require.LessOrEqual(t, m.Taken(), bound)
		require.GreaterOrEqual(t, m.Taken(), 0)
	}
	m.SetBound(0)
	require.Zero(t, m.Taken(), "what was added and what was taken out is the same")
}

// TestTakenIsHonest: the heap holds no more than the memory says.
func TestTakenIsHonest(t *testing.T) {
	// Not parallel, because the test measures the heap.
	for name, length := range map[string]int{"small": 1, "large": 500} {
		m, on := New(1<<30), subjects(2000)
		write(m, "first", on, 1) // Subjects get their slots.
		before, taken := heapBytes(), m.Taken()
		for i := range 20 {
			write(m, fmt.Sprint("key ", i), on, length)
		}
		grown, said := heapBytes()-before, m.Taken()-taken
		require.Less(t, grown, said+said/4, name)
		require.Less(t, said, 2*grown, name)
		runtime.KeepAlive(m)
		runtime.KeepAlive(on)
	}
}

func heapBytes() int {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// TestNothingIsKnownAboutNewSubjects: new subjects get the slots of those that are gone. The findings about
// these are freed gradually.
func TestNothingIsKnownAboutNewSubjects(t *testing.T) {
	m := New(1 << 30)
	most := 0
	for round := range 50 {
		on := subjects(1000)
		for _, subject := range on {
			require.False(t, knows(m, "q", subject))
		}
		write(m, "q", on, 1000)
		if round == 10 {
			most = m.Taken()
		}
		on = nil
		runtime.GC()
		time.Sleep(time.Millisecond) // Cleanups have a goroutine of their own.
	}
	require.Less(t, m.Taken(), 3*most)
}

// TestErrorsAreKeptOnce: each text is kept once, and the number of texts is limited.
func TestErrorsAreKeptOnce(t *testing.T) {
	t.Parallel()
	m := New(1 << 20)
	table := Open[text](m, about("q"))
	others := errors.New("others")
	first := errors.New("0")
	require.Same(t, first, table.Error(first, nil))
	for i := range 1000 {
		kept := table.Error(errors.New(fmt.Sprint(i)), func() error { return others })
		switch {
		case i == 0:
			require.Same(t, first, kept)
		case i >= maxErrors:
			require.Same(t, others, kept)
		}
	}
	require.Same(t, first, table.Error(errors.New("0"), nil), "it is still known")
	require.Less(t, m.Taken(), headerSize+(maxErrors+1)*2*errorSize)
}

// TestWhatIsForgottenIsFree: references and tables in use keep no forgotten findings alive.
func TestWhatIsForgottenIsFree(t *testing.T) {
	t.Parallel()
	m, on := New(1<<20), subjects(10)
	ref := NewReference[text](about("q"))
	ref.Put(m, on[0], "x")
	table := Open[text](m, about("q"))
	m.SetBound(0)
	_, found := table.Get(on[0])
	require.False(t, found)
	require.Equal(t, text("y"), table.Put(on[1], "y"), "whoever has found it out can use it")
	_, found = table.Get(on[1])
	require.False(t, found)
	require.Zero(t, m.Taken())
	m.SetBound(1 << 20)
	ref.Put(m, on[0], "z")
	finding, found := ref.Get(m, on[0])
	require.True(t, found)
	require.Equal(t, text("z"), finding)
}

// TestHeldTables: held tables stay, up to half of the memory, and the first one in any case.
func TestHeldTables(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, on := New(100_000), subjects(10)
		held := func(name string) {
			write(m, name, on, 1)
			Open[text](m, about(name)).Hold(time.Minute)
			write(m, name+" more", on, 1)
		}
		held("first")
		for i := range 50 {
			write(m, fmt.Sprint(i), on, 2000)
		}
		require.True(t, knows(m, "first", on[0]))
		require.LessOrEqual(t, m.Taken(), 100_000)

		for i := range 5 {
			write(m, fmt.Sprint("large ", i), on, 2000)
			Open[text](m, about(fmt.Sprint("large ", i))).Hold(time.Minute)
		}
		for i := range 50 {
			write(m, fmt.Sprint(i), on, 2000)
		}
		require.True(t, knows(m, "first", on[0]))
		require.True(t, knows(m, "large 0", on[0]))
		require.False(t, knows(m, "large 4", on[0]), "others get half")

		write(m, "first", subjects(100), 5000)
		require.True(t, knows(m, "first", on[0]), "even if it is too large")
		time.Sleep(time.Minute)
		write(m, "last", on, 2000)
		require.False(t, knows(m, "first", on[0]))
		require.LessOrEqual(t, m.Taken(), 100_000)
		m.SetBound(0)
		require.Zero(t, m.Taken())
	})
}

// TestHeldUntilItIsUsed: a table is released after the waiting caller has read it.
func TestHeldUntilItIsUsed(t *testing.T) {
	t.Parallel()
	m, on := New(900_000), subjects(10)
	fill := func() {
		for i := range 10 {
			write(m, fmt.Sprint(i), on, 20_000)
		}
	}
	write(m, "q", on, 20_000)
	table := Open[text](m, about("q"))
	table.Hold(time.Hour)
	require.True(t, knows(m, "q", on[0]), "somebody looks while it is worked on")
	table.Finish()
	fill()
	require.True(t, knows(m, "q", on[0]))
	fill()
	require.False(t, knows(m, "q", on[0]))
}

// TestManyAtOnce is for the race detector. Every read must equal the write, although tables are forgotten and
// subjects are freed all the time.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	m, lasting := New(300_000), subjects(200)
	var all sync.WaitGroup
	for range 8 {
		seed := rand.Int63()
		all.Go(func() {
			rng := rand.New(rand.NewSource(seed))
			for round := range 3000 {
				name, number := fmt.Sprint(rng.Intn(30)), rng.Intn(len(lasting))
				subject, want := lasting[number], text(fmt.Sprintf("%s about %d %500d", name, number, 0))
				if rng.Intn(4) == 0 {
					subject, want = new(Subject), text(fmt.Sprint("short-lived ", round, seed))
				}
				ref := NewReference[text](about(name))
				if finding, found := ref.Get(m, subject); found && finding != want || !found && ref.Put(m, subject, want) != want {
					t.Errorf("%q was put, %q was found", want, finding)
				}
				if rng.Intn(500) == 0 {
					runtime.GC()
				}
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, m.Taken(), 300_000)
}
