package allocationlog

import (
	"fmt"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// parseVersion returns a resourceVersion as a number, so that versions can be compared and stored
// without strings. Versions are positive integers (KEP-5504); those of etcd have 63 bits.
func parseVersion(text string) (uint64, error) {
	// Comparing is the exported way to check that a version is well-formed.
	if _, err := resourceversion.CompareResourceVersion(text, text); err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 10, 64)
}

// Span is the range of resourceVersions, from First to Last, that contains the write of an
// allocation.
type Span struct {
	First, Last uint64
}

func exactly(version uint64) Span { return Span{version, version} }

// anywhere is the span of an allocation with an unknown version.
var anywhere = Span{0, math.MaxUint64}

// Exact reports whether the version of the write is known.
func (s Span) Exact() bool { return s.First == s.Last }

func (s Span) String() string {
	switch {
	case s == anywhere:
		return "unknown"
	case s.Exact():
		return strconv.FormatUint(s.Last, 10)
	case s.First == 0:
		return fmt.Sprintf("at most %d", s.Last)
	default:
		return fmt.Sprintf("%d to %d", s.First, s.Last)
	}
}

// Relation says when another claim was allocated, compared to the claim in question.
type Relation int

const (
	// Unknown: the two spans overlap.
	Unknown Relation = iota
	// Earlier: the other claim was allocated first.
	Earlier
	// Later: the other claim was allocated afterwards.
	Later
)

func (r Relation) String() string {
	return [...]string{"unknown", "earlier", "later"}[r]
}

// relationOf returns when the other write happened, compared to own.
func relationOf(other, own Span) Relation {
	switch {
	case other.Last < own.First:
		return Earlier
	case other.First > own.Last:
		return Later
	default:
		return Unknown
	}
}
