// Package boundedcel prevents CEL expressions from calculating with quantities that have too many digits.
//
// Any author of an expression can write quantity("1e999999999"), with which resource.Quantity calculates for
// hours, or quantity("1e-999999999"), which it parses for hours. CEL can neither interrupt that nor count it
// as cost. Therefore the functions that parse quantities refuse texts with too many digits, and capacities of
// devices are bounded before expressions see them. A number that gains one digit with each addition stays
// small enough within the cost limit.
package boundedcel

import (
	"errors"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	resourceapi "k8s.io/api/resource/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

const (
	isQuantity = "isQuantity"
	toQuantity = "quantity"
)

// Option returns the CEL option that adds these checks, for programs that are not of the API's current
// version; see Program.
func Option() cel.ProgramOption {
	return cel.CustomDecorator(func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		call, is := i.(interpreter.InterpretableCall)
		if !is || !parsesQuantity(call.Function()) || len(call.Args()) != 1 {
			return i, nil
		}
		return &quantityCall{call}, nil
	})
}

func parsesQuantity(function string) bool {
	return function == toQuantity || function == isQuantity
}

// quantityCall is a call of a function that parses a quantity.
type quantityCall struct{ interpreter.InterpretableCall }

// Eval implements interpreter.Interpretable.
func (c *quantityCall) Eval(activation interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(activation))
}

// Exec implements interpreter.InterpretableV2.
func (c *quantityCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	arg := c.Args()[0].Exec(frame)
	if types.IsUnknownOrError(arg) {
		return arg
	}
	text, is := arg.Value().(string)
	if !is {
		return types.MaybeNoSuchOverloadErr(arg)
	}
	parsed, err := quantity.Parse(text)
	switch {
	case errors.Is(err, quantity.ErrEndless):
		return types.NewErrWithNodeID(c.ID(), "%s(%.80q): quantities here have at most %d digits before and behind the point; write another one",
			c.Function(), text, quantity.MostWritten)
	case c.Function() == isQuantity:
		return types.Bool(err == nil)
	case err != nil:
		return types.LabelErrNode(c.ID(), types.WrapErr(err))
	}
	return apiservercel.Quantity{Quantity: &parsed}
}

// Program returns the compiled expression with a program that refuses endless quantities. It leaves an
// expression that parses no quantities unchanged, because planning takes time.
func Program(compiled dracel.CompilationResult) dracel.CompilationResult {
	if compiled.Error != nil || !strings.Contains(compiled.Expression, "uantity") {
		return compiled
	}
	program, err := planned(&compiled)
	if err != nil { // Impossible: the same expression compiled before.
		compiled.Error = &apiservercel.Error{Type: apiservercel.ErrorTypeInternal, Detail: err.Error()}
		return compiled
	}
	compiled.Program = program
	return compiled
}

// planned plans an expression with the limits of the first compilation.
func planned(compiled *dracel.CompilationResult) (cel.Program, error) {
	checked, issues := compiled.Environment.Compile(compiled.Expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	return compiled.Environment.Program(checked,
		cel.CostLimit(resourceapi.CELSelectorExpressionMaxCost),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
		Option())
}

// Capacities returns capacities that are safe to calculate with: usually the given ones, otherwise a copy
// with bounded values.
func Capacities(capacities map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	countable := true
	for _, capacity := range capacities {
		countable = countable && quantity.Countable(capacity.Value)
	}
	if countable {
		return capacities
	}
	copied := make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, len(capacities))
	for name, capacity := range capacities {
		capacity.Value = quantity.Bounded(capacity.Value)
		copied[name] = capacity
	}
	return copied
}
