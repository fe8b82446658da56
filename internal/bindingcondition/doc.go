// Package bindingcondition is about devices that get ready after they were allocated
// (KEP-5007): how far drivers have got with a claim, as they report in its status.devices,
// and how a pod that is to be bound waits for that.
//
// It reads claims and pods and writes to none. What becomes of a claim whose devices do not get
// ready is up to whoever asks.
package bindingcondition
