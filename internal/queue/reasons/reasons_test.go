package reasons

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// TestNames: all causes have names of their own that can be values of labels.
func TestNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for i := range names {
		cause := Cause(i)
		require.Regexp(t, regexp.MustCompile(`^[a-z_]+$`), cause.String())
		require.False(t, seen[cause.String()], cause)
		seen[cause.String()] = true
	}
	require.Len(t, seen, len(Counts{}))
}

// TestNearestCounts: of several causes the first counts, in whichever order they are noted.
func TestNearestCounts(t *testing.T) {
	t.Parallel()
	first := func(c *Causes) string {
		cause, waits := c.First()
		if !waits {
			return ""
		}
		return cause.String()
	}
	var c Causes
	require.Empty(t, first(&c))
	c.NoteOther()
	require.Equal(t, "other", first(&c))
	c.NoteBlame(allocator.BlameUnknown)
	require.Equal(t, "other", first(&c))
	c.NoteBlame(allocator.BlameDevices)
	require.Equal(t, "no_devices", first(&c))
	c.NoteBlame(allocator.BlamePools)
	require.Equal(t, "pool_unusable", first(&c))
	c.NoteBlame(allocator.BlameCombination)
	require.Equal(t, "combination", first(&c))
	c.NoteBlame(allocator.BlameClaims)
	c.NoteBlame(allocator.BlameDevices)
	require.Equal(t, "held", first(&c))
	c.NoteReclaimable(false, false)
	require.Equal(t, "held", first(&c))
	c.NoteReclaimable(false, true)
	require.Equal(t, "held_by_lower_priority", first(&c))
	c.NoteReclaimable(true, false)
	require.Equal(t, "releasing", first(&c))
	c.NoteBlame(allocator.BlameSearch)
	require.Equal(t, "undecided", first(&c))
	c.Only(Committing)
	c.NoteOther()
	require.Equal(t, "committing", first(&c))
	c.Note(CommitFailed)
	c.Ended(Committing)
	require.Equal(t, "commit_failed", first(&c))
	c.Note(Conflict)
	require.Equal(t, "conflict", first(&c))
	c.Only(Committing)
	c.Ended(Committing)
	require.Empty(t, first(&c), "a pod that is reserved and given up for another reason does not wait for devices")
	c.Note(Held)
	c.Clear()
	require.Empty(t, first(&c))
}

func TestOfErrors(t *testing.T) {
	t.Parallel()
	require.Equal(t, ClassMissing, OfTask(fmt.Errorf("claim c: %w", &allocator.ClassMissing{Class: "gpu"})))
	require.Equal(t, RequestInvalid, OfTask(errors.New("is no CEL expression")))
	require.Equal(t, Undecided, OfSearch(fmt.Errorf("n1: %w", selector.ErrPending)))
	require.Equal(t, Undecided, OfSearch(fmt.Errorf("%w: %w", allocator.ErrInterrupted, context.Canceled)))
	require.Equal(t, SelectorFails, OfSearch(&selector.Error{}))
	require.Equal(t, ClassMissing, OfSearch(fmt.Errorf("claim c: %w", &allocator.ClassMissing{Class: "gpu"})), "of the first alternative")
}
