// The formats of texts that a schema may ask for, as patterns. Each lets through less than the format does: no 29th day.

const date = "\\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\\d|2[0-8])";
const time = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:0\\d|1[0-4]):[0-5]\\d)";
const byte = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const label = "[a-z0-9](?:[a-z0-9-]{0,20}[a-z0-9])?";

export const formats: Record<string, string> = {
  date,
  time,
  "date-time": `${date}T${time}`,
  uuid: "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
  ipv4: `${byte}(?:\\.${byte}){3}`,
  email: `[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?@${label}(?:\\.${label}){0,3}\\.[a-z]{2,8}`,
  uri: `https?://${label}(?:\\.${label}){0,4}(?:/[A-Za-z0-9._~-]{1,40}){0,8}/?`,
};
