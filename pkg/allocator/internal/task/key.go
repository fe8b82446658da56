package task

import (
	"encoding/binary"
	"slices"
)

// AppendKey appends a text that is equal for tasks with the same solutions on every node, regardless of the
// claims. It depends on expressions, counts and the requests that constraints cover, in the order of requests.
// It ignores the names of requests, alternatives and classes, the configuration, and the order of tolerations.
func (t *Task) AppendKey(b []byte) []byte {
	if t.settings.RefuseOfNode {
		b = append(b, 'n')
	}
	for _, c := range t.claims {
		b = c.appendKey(b)
	}
	return b
}

func (c *Claim) appendKey(b []byte) []byte {
	if c.isUnclear() {
		return append(b, c.API.UID...) // Unique to the claim.
	}
	b = binary.AppendUvarint(b, uint64(len(c.Slots)))
	b = binary.AppendUvarint(b, uint64(c.Most))
	for _, slot := range c.Slots {
		b = binary.AppendUvarint(b, uint64(len(slot.Alternatives)))
		for _, r := range slot.Alternatives {
			b = r.appendKey(b)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(c.Constraints)))
	for i := range c.Constraints {
		b = c.appendConstraint(b, i)
	}
	return b
}

// isUnclear reports whether any part of the claim cannot be resolved.
func (c *Claim) isUnclear() bool {
	return c.Err != nil || c.ConstraintErr() != nil || slices.ContainsFunc(c.Slots, func(slot Slot) bool {
		return slot.Err != nil || slot.LeftOut != nil || slices.ContainsFunc(slot.Alternatives, func(r *Request) bool { return r.Err != nil })
	})
}

// appendConstraint appends the attribute of a constraint and the positions of the requests that it covers.
func (c *Claim) appendConstraint(b []byte, index int) []byte {
	constraint := &c.Constraints[index]
	if constraint.MatchAttribute != nil {
		b = appendText(append(b, 'm'), string(*constraint.MatchAttribute))
	}
	if constraint.DistinctAttribute != nil {
		b = appendText(append(b, 'd'), string(*constraint.DistinctAttribute))
	}
	for _, slot := range c.Slots {
		for _, r := range slot.Alternatives {
			if r.IsCoveredBy(constraint) {
				b = append(b, '1')
			} else {
				b = append(b, '0')
			}
		}
	}
	return b
}

func (r *Request) appendKey(b []byte) []byte {
	b = appendText(b, r.Wanted.Text())
	b = appendText(b, string(r.mode))
	b = binary.AppendVarint(b, r.Count)
	if r.Admin {
		b = append(b, 'a')
	}
	b = appendAll(append(b, 't'), r.Tolerations, true)
	if r.Capacity != nil {
		b = appendOne(append(b, 'c'), r.Capacity)
	}
	return appendAll(append(b, 'v'), r.Derived, false)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// marshaler is implemented by the API's types. It cannot fail, because it writes into memory.
type marshaler interface{ Marshal() ([]byte, error) }

func appendOne(b []byte, of marshaler) []byte {
	text, err := of.Marshal()
	if err != nil {
		panic("marshal a part of a claim: " + err.Error())
	}
	return appendText(b, string(text))
}

// appendAll appends a list; with inAnyOrder, its order does not matter.
func appendAll[T any, P interface {
	*T
	marshaler
}](b []byte, list []T, inAnyOrder bool) []byte {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = string(appendOne(nil, P(&list[i])))
	}
	if inAnyOrder {
		slices.Sort(texts)
	}
	b = binary.AppendUvarint(b, uint64(len(texts)))
	for _, text := range texts {
		b = append(b, text...)
	}
	return b
}
