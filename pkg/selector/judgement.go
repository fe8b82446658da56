package selector

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// question asks about devices: whether they match an expression, or which attribute it derives from them.
type question struct {
	expression string
	derives    bool
}

// Kinds of questions in the memory. The text of a question about a set joins all its expressions.
const (
	selecting memo.Kind = "select"
	deriving  memo.Kind = "derive"
)

// selections returns the sheet with the remembered selections, or nil if there is none.
func (q question) selections(m *memo.Memory) *memo.Table[*Selection] {
	return memo.Find[*Selection](m, q.asSelector())
}

// held is a sheet of any type.
type held interface {
	Hold(time.Duration)
	Finish()
}

// sheet returns the sheet for the answers, and creates it if there is none.
func (q question) sheet(m *memo.Memory) held {
	if q.derives {
		return memo.Open[*derivation](m, q.asDerived())
	}
	return memo.Open[*Selection](m, q.asSelector())
}

func (q question) asDerived() memo.Key {
	return memo.Key{Kind: deriving, Text: q.expression}
}

func (q question) asSelector() memo.Key {
	return memo.Key{Kind: selecting, Text: joined(q.expression)}
}

// judgement is the progress of a question through the devices of a slice.
type judgement struct {
	question
	slice *inventory.Slice

	// The first step sets the other fields.

	asked lazyProgram
	next  int // device
	// Either matches or attributes holds the answers. errors holds, by position, the errors of devices
	// without an answer; it is nil if there are none.
	matches    bitset.Set
	attributes []*resourceapi.DeviceAttribute
	errors     []error

	took time.Duration // in the background
}

func (j *judgement) devices() int { return len(j.slice.Spec.Devices) }

func (j *judgement) begun() bool { return j.matches != nil || j.attributes != nil }

func (j *judgement) done() bool { return j.begun() && j.next >= j.devices() }

// begin allocates room for the answers.
func (j *judgement) begin() {
	j.asked.text = j.expression
	if j.derives {
		j.attributes = make([]*resourceapi.DeviceAttribute, j.devices())
	} else {
		j.matches = bitset.New(j.devices())
	}
}

// step evaluates the expression for the next device. It fails only if the context ends, and then changes nothing.
func (e *Evaluator) step(ctx context.Context, j *judgement) error {
	if !j.begun() {
		j.begin()
	}
	if j.done() {
		return nil
	}
	device := deviceOf(j.slice, &j.slice.Spec.Devices[j.next])
	var matches bool
	var attribute *resourceapi.DeviceAttribute
	var err error
	if j.derives {
		attribute, err = e.attribute(ctx, &j.asked, &device)
	} else {
		matches, err = e.verdict(ctx, &j.asked, &device)
	}
	switch {
	case ctx.Err() != nil:
		// The result may come from the interruption.
		return fmt.Errorf("evaluating expressions for slice %s: %w", j.slice.Name, context.Cause(ctx))
	case err != nil:
		j.fail(err)
		return nil
	case j.derives:
		j.attributes[j.next] = attribute
	case matches:
		j.matches.Add(j.next)
	}
	j.next++
	return nil
}

// fail records that the next device has no answer.
func (j *judgement) fail(err error) {
	if j.errors == nil {
		j.errors = make([]error, j.devices())
	}
	j.errors[j.next] = err
	j.next++
}

// lookUp reports whether the answer is known because another goroutine found it.
func (e *Evaluator) lookUp(j *judgement) bool {
	subject, found := &j.slice.Content.Subject, false
	if j.derives {
		if sheet := j.derivations(e.memory); sheet != nil {
			_, found = sheet.Get(subject)
		}
	} else if sheet := j.selections(e.memory); sheet != nil {
		_, found = sheet.Get(subject)
	}
	return found
}

// keep remembers the answers of a judgement that is done.
func (e *Evaluator) keep(j *judgement) {
	if j.derives {
		e.keepDerivation(j)
	} else {
		e.keepSelection(j)
	}
}

func (e *Evaluator) keepSelection(j *judgement) *Selection {
	sheet := memo.Open[*Selection](e.memory, j.asSelector())
	selection := &Selection{Matches: j.matches, Failed: bitset.New(j.devices())}
	for device, err := range j.errors {
		if err != nil {
			selection.fail(device, j.devices(), failure{err: sheet.Error(err, manyErrors)})
		}
	}
	return sheet.Put(&j.slice.Content.Subject, selection)
}
