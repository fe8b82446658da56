// Package selector decides which devices of a pool match the CEL selectors of device classes and requests,
// and derives attributes by CEL expressions. It evaluates each expression once for each content of a slice
// (inventory.Content). The verdicts are bit sets, which package memo remembers as long as there is room.
//
// An expression can take long: at the API's cost limit it takes 0.4 s for one device. Compilation, and
// functions like matches() on long texts, cannot be interrupted. A caller that must not be blocked passes a
// Budget in the context.
package selector
