import Foundation

/// JSON as Foundation reads it.
public typealias Json = [String: Any]

/// A value as JSON text.
func written(_ value: Any) throws -> String {
    String(decoding: try JSONSerialization.data(withJSONObject: value), as: UTF8.self)
}

/// What a JSON text holds.
func parsed(_ text: String) throws -> Any {
    try JSONSerialization.jsonObject(with: Data(text.utf8))
}
